package dev.starforge.serve.http;

import java.time.Duration;

/**
 * What one client may take from the others.
 *
 * @param head bytes of a request line with its headers
 * @param body bytes of a request's body
 * @param connections open at once; beyond, the one that has waited longest without a request makes room
 * @param headTime from the first byte of a request to the end of its head
 * @param bodyTime from there to the end of its body
 * @param idleTime between two requests of a connection
 * @param writeTime that one write may wait for a client that does not read
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
