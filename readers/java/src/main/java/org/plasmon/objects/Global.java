package org.plasmon.objects;

/** Something that has a name in Python: a type, a class, a function. */
public record Global(String name) {}
