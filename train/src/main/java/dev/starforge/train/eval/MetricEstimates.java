package dev.starforge.train.eval;

import tools.jackson.databind.node.ObjectNode;

/** A figure with its interval, as the report has it. */
final class MetricEstimates {
    private MetricEstimates() {}

    static void put(ObjectNode node, String name, BootstrapInterval figure) {
        node.putObject(name)
                .put("value", figure.value())
                .put("low", figure.low())
                .put("high", figure.high());
    }
}
