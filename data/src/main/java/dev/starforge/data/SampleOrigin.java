package dev.starforge.data;

/**
 * Where a sample came from, as far as it matters for how often it is seen: recent commits may count more, and so may
 * some directories.
 *
 * @param commit the commit's hash
 * @param time when it was committed, in seconds since 1970
 * @param directory of the first file of the sample, without a slash at its end; empty for the top
 */
public record SampleOrigin(String commit, long time, String directory) {}
