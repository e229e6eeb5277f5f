package dev.starforge.train.run;

import dev.starforge.text.report.ShellQuoting;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.merge.MergeOutput;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Suggested commands for a finished run, quoted for a shell. Shown in the terminal and in the report. */
final class NextCommands {
    private NextCommands() {}

    /**
     * @param gguf whether the base is a GGUF file
     * @param heldOut the split to evaluate on, if there is one
     */
    static Map<String, String> of(Path run, boolean hasAdapter, boolean gguf, Optional<String> heldOut) {
        String folder = ShellQuoting.quoted(run);
        Map<String, String> commands = new LinkedHashMap<>();
        commands.put("try it", "starforge generate " + folder + " --prompt 'Hello'");
        heldOut.ifPresent(split -> commands.put(
                "evaluate it",
                "starforge eval --config " + ShellQuoting.quoted(run.resolve(RunFolder.CONFIG))
                        + (hasAdapter ? " --adapter " + folder : " --set " + trained(run))
                        + (split.equals("test") ? "" : " --split " + split)));
        Path merged = MergeOutput.of(run, hasAdapter && gguf);
        commands.put("merge it", "starforge merge " + folder + " --out " + ShellQuoting.quoted(merged));
        commands.put(
                "quantize it",
                "starforge quantize " + ShellQuoting.quoted(merged) + " --to q8_0 --out "
                        + ShellQuoting.quoted(run.resolveSibling(run.getFileName() + "-q8_0.gguf"))
                        + (hasAdapter && gguf ? " --allow-requantize" : ""));
        return commands;
    }

    /** The setting that selects a fully trained model. */
    private static String trained(Path run) {
        String path = run.resolve(Checkpoints.target(run, "best").isPresent() ? "best" : "latest")
                .toString();
        String value = path.matches("[A-Za-z0-9_./-]+")
                ? path
                : "\"" + path.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
        return ShellQuoting.quoted("model.pretrained_model=" + value);
    }
}
