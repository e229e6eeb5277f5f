package dev.starforge.train.eval;

import tools.jackson.databind.node.ObjectNode;

/** Writes a metric with its confidence interval to the report. */
final class MetricEstimates {
    private MetricEstimates() {}

    static void put(ObjectNode node, String name, BootstrapInterval figure) {
        node.putObject(name)
                .put("value", figure.value())
                .put("low", figure.low())
                .put("high", figure.high());
    }
}
