package org.plasmon.objects;

import java.time.LocalTime;

/**
 * A time of day that has a zone or a fold. (One without either is a {@link LocalTime}.) {@code
 * zone} may be null.
 */
public record PyTime(LocalTime local, int fold, PyZone zone) {}
