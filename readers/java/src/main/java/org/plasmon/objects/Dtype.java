package org.plasmon.objects;

/** A NumPy element type: its array-protocol text ({@code <f8}) and its size in bytes. */
public record Dtype(String text, int itemsize) {}
