package dev.starforge.api.server;

import dev.starforge.tensor.device.Device;
import dev.starforge.train.plan.MachineFacts;

/** An open device and the memory of its machine. */
public record OpenedDevice(Device device, MachineFacts machine) {}
