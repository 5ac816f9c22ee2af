package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class OutputPlaceTest {
    @Test
    void aPlaceSurvivesItsText() {
        OutputPlace place = new OutputPlace(65534, 3);
        assertEquals("plasmon-slot=65534,runs=3", place.text());
        assertEquals(place, OutputPlace.parse(place.text()));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "/rack1", "plasmon-slot=1", "plasmon-slot=x,runs=1", "plasmon-slot=1,runs=",
        "plasmon-slot=99999999999,runs=1", "rack,runs=1"
    })
    void aTopologyOfOthersIsNoPlace(String text) {
        assertNull(OutputPlace.parse(text));
    }
}
