package dev.starforge.data;

/**
 * The origin of a sample, used for sampling weights by commit age and directory.
 *
 * @param commit the commit's hash
 * @param time commit time in seconds since 1970
 * @param directory the directory of the sample's first file, without trailing slash; empty for the root
 */
public record SampleOrigin(String commit, long time, String directory) {}
