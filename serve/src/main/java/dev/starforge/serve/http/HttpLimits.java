package dev.starforge.serve.http;

import java.time.Duration;

/**
 * Limits of an HTTP server.
 *
 * @param head maximum bytes of the request line and headers
 * @param body maximum bytes of a request body
 * @param connections maximum open connections; beyond it, the connection that has been idle longest is closed
 * @param headTime time from the first byte of a request to the end of its head
 * @param bodyTime time from the end of the head to the end of the body
 * @param idleTime maximum time between two requests of a connection
 * @param writeTime maximum time that a write may block
 */
public record HttpLimits(
        int head,
        int body,
        int connections,
        Duration headTime,
        Duration bodyTime,
        Duration idleTime,
        Duration writeTime) {
    public static final HttpLimits DEFAULT = new HttpLimits(
            16 << 10,
            4 << 20,
            1024,
            Duration.ofSeconds(10),
            Duration.ofSeconds(30),
            Duration.ofSeconds(75),
            Duration.ofSeconds(30));

    public HttpLimits {
        if (head < 64 || head > ConnectionReader.CAPACITY || body < 0 || connections < 1) {
            throw new IllegalArgumentException("http limits: expected a head of 64 to " + ConnectionReader.CAPACITY
                    + " bytes, a body of 0 or more, and a connection; got " + head + ", " + body + ", " + connections);
        }
    }

    public HttpLimits withTimes(Duration headTime, Duration bodyTime, Duration idleTime, Duration writeTime) {
        return new HttpLimits(head, body, connections, headTime, bodyTime, idleTime, writeTime);
    }

    public HttpLimits withConnections(int value) {
        return new HttpLimits(head, body, value, headTime, bodyTime, idleTime, writeTime);
    }
}
