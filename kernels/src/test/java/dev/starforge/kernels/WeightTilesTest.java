package dev.starforge.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import java.util.Arrays;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Repacking loses nothing: every bit of a unit is some bit of its rows, and each of those is there once. */
class WeightTilesTest {
    @ParameterizedTest
    @EnumSource(
            names = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "NF4", "NF4_DOUBLE", "INT8_128"})
    void repackingPermutesBits(DType type) {
        WeightTiles tiles = WeightTiles.of(type);
        int[] sources = tiles.sources();
        assertEquals(sources.length, Arrays.stream(sources).distinct().count());
        for (int stretch = 0; stretch < tiles.segments(16, tiles.unitColumns()).size(); stretch++) {
            int[] places = tiles.destinations(stretch);
            int bits = places.length / WeightTiles.ROWS;
            for (int i = 0; i < places.length; i++) {
                assertEquals(stretch << 24 | i / bits << 16 | i % bits, sources[places[i]]);
            }
        }
    }

    /** The bytes of a matrix are those of its units and what no unit has. */
    @ParameterizedTest
    @EnumSource(names = {"Q4_0", "Q6_K", "INT8_128"})
    void unitsCoverTheMatrix(DType type) {
        WeightTiles tiles = WeightTiles.of(type);
        Spec w = new Spec(type, Shape.of(48, 2L * tiles.unitColumns()));
        assertTrue(WeightTiles.supports(w));
        assertEquals(w.bytes(), 3L * 2 * tiles.unitBytes());
        assertFalse(WeightTiles.supports(new Spec(type, Shape.of(47, 2L * tiles.unitColumns()))));
    }
}
