package dev.starforge.tensor.op;

/**
 * Elementwise functions, defined here in double. Backends approximate them in float32; this is what they approximate.
 */
public enum Fn {
    /** x: no activation. */
    IDENTITY {
        @Override
        public double apply(double x) {
            return x;
        }

        @Override
        public double slope(double x) {
            return 1;
        }
    },
    EXP {
        @Override
        public double apply(double x) {
            return Math.exp(x);
        }

        @Override
        public double slope(double x) {
            return Math.exp(x);
        }
    },
    RSQRT {
        @Override
        public double apply(double x) {
            return 1 / Math.sqrt(x);
        }

        @Override
        public double slope(double x) {
            return -0.5 / (x * Math.sqrt(x));
        }
    },
    RECIPROCAL {
        @Override
        public double apply(double x) {
            return 1 / x;
        }

        @Override
        public double slope(double x) {
            return -1 / (x * x);
        }
    },
    SIGMOID {
        @Override
        public double apply(double x) {
            return 1 / (1 + Math.exp(-x));
        }

        @Override
        public double slope(double x) {
            return 1 / (1 + Math.exp(-x)) / (1 + Math.exp(x));
        }
    },
    SIN {
        @Override
        public double apply(double x) {
            return Math.sin(x);
        }

        @Override
        public double slope(double x) {
            return Math.cos(x);
        }
    },
    COS {
        @Override
        public double apply(double x) {
            return Math.cos(x);
        }

        @Override
        public double slope(double x) {
            return -Math.sin(x);
        }
    },
    SILU {
        @Override
        public double apply(double x) {
            return x / (1 + Math.exp(-x));
        }

        @Override
        public double slope(double x) {
            double s = 1 / (1 + Math.exp(-x));
            return s * (1 + x * (1 - s));
        }
    },
    /** GELU in its tanh form (Hendrycks and Gimpel 2016), what HF calls {@code gelu_pytorch_tanh}. */
    GELU_TANH {
        @Override
        public double apply(double x) {
            return 0.5 * x * (1 + Math.tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)));
        }

        @Override
        public double slope(double x) {
            double t = Math.tanh(ROOT_2_OVER_PI * (x + 0.044715 * x * x * x));
            return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
        }
    };

    private static final double ROOT_2_OVER_PI = Math.sqrt(2 / Math.PI);

    public abstract double apply(double x);

    /** The derivative. */
    public abstract double slope(double x);
}
