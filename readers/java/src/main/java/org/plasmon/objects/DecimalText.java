package org.plasmon.objects;

/** A decimal number that no {@link java.math.BigDecimal} is: NaN, an infinity, minus zero. */
public record DecimalText(String text) {}
