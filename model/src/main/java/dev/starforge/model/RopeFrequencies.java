package dev.starforge.model;

/**
 * The rotary frequencies of a config, scaled as its rope type says. Read from {@code rope_parameters} or from the older
 * {@code rope_theta} and {@code rope_scaling}. Computed in float32 where HF does, so that long positions agree.
 */
final class RopeFrequencies {
    private RopeFrequencies() {}

    static float[] of(Config config, int rotaryDims) {
        boolean newer = config.has("rope_parameters");
        boolean scaled = newer || config.has("rope_scaling");
        Config section = scaled ? config.section(newer ? "rope_parameters" : "rope_scaling") : config;
        double theta = newer ? section.number("rope_theta", 10000) : config.number("rope_theta", 10000);
        String type = scaled ? section.text("rope_type", section.text("type", "default")) : "default";
        float[] frequencies = new float[rotaryDims / 2];
        for (int i = 0; i < frequencies.length; i++) {
            float exponent = 2f * i / rotaryDims;
            frequencies[i] = 1f / (float) StrictMath.pow(theta, exponent);
        }
        return switch (type) {
            case "default" -> frequencies;
            case "llama3" -> llama3(section, frequencies);
            default -> throw section.wrong("rope_type", "default or llama3");
        };
    }

    /** Low frequencies divided by the factor, high ones kept, the band between blended (Llama 3.1). */
    private static float[] llama3(Config config, float[] frequencies) {
        double factor = config.number("factor");
        double low = config.number("low_freq_factor");
        double high = config.number("high_freq_factor");
        double context = config.size("original_max_position_embeddings");
        float[] scaled = new float[frequencies.length];
        for (int i = 0; i < scaled.length; i++) {
            double wavelength = 2 * Math.PI / frequencies[i];
            double blend = Math.clamp((context / wavelength - low) / (high - low), 0, 1);
            scaled[i] = (float) ((1 - blend) * frequencies[i] / factor + blend * frequencies[i]);
        }
        return scaled;
    }
}
