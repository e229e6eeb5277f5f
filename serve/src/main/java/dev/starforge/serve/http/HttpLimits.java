package dev.starforge.serve.http;

import java.time.Duration;

/**
 * Limits of an HTTP server.
 *
 * @param head maximum bytes of the request line and headers
 * @param body maximum bytes of a request body
 * @param buffers maximum bytes of all bodies, and of what else is buffered of requests beyond a few kilobytes per connection
 * @param connections maximum open connections; beyond it, a connection that serves no request is closed
 * @param perAddress maximum open connections of one client address; loopback addresses have no such limit: a proxy on the same machine
 *     brings many clients from one address
 * @param headTime time from the first byte of a request to the end of its head
 * @param bodyTime time from the end of the head to the end of the body
 * @param idleTime maximum time between two requests of a connection
 * @param writeTime maximum time that a write may block
 */
public record HttpLimits(
        int head,
        int body,
        long buffers,
        int connections,
        int perAddress,
        Duration headTime,
        Duration bodyTime,
        Duration idleTime,
        Duration writeTime) {
    public static final HttpLimits DEFAULT = new HttpLimits(
            16 << 10,
            4 << 20,
            Math.clamp(Runtime.getRuntime().maxMemory() / 8, 8 << 20, 64 << 20),
            1024,
            256,
            Duration.ofSeconds(10),
            Duration.ofSeconds(30),
            Duration.ofSeconds(75),
            Duration.ofSeconds(30));

    public HttpLimits {
        if (head < 64 || head > ConnectionReader.CAPACITY || body < 0 || connections < 1 || perAddress < 1) {
            throw new IllegalArgumentException("http limits: expected a head of 64 to " + ConnectionReader.CAPACITY
                    + " bytes, a body of 0 or more, and a connection; got " + head + ", " + body + ", " + connections
                    + ", " + perAddress);
        }
    }

    public HttpLimits withTimes(Duration headTime, Duration bodyTime, Duration idleTime, Duration writeTime) {
        return new HttpLimits(head, body, buffers, connections, perAddress, headTime, bodyTime, idleTime, writeTime);
    }

    public HttpLimits withConnections(int value) {
        return withConnections(value, perAddress);
    }

    public HttpLimits withConnections(int value, int valuePerAddress) {
        return new HttpLimits(head, body, buffers, value, valuePerAddress, headTime, bodyTime, idleTime, writeTime);
    }

    public HttpLimits withBuffers(long value) {
        return new HttpLimits(head, body, value, connections, perAddress, headTime, bodyTime, idleTime, writeTime);
    }
}
