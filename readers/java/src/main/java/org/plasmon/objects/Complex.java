package org.plasmon.objects;

/** A complex number. */
public record Complex(double re, double im) {}
