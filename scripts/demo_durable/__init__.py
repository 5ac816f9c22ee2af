"""Three nodes with logs, durable objects, and no power: ``make demo-durable``.

    scene        the story: put, delete while a node is away, switch everything off and on
    __main__     runs it and says what held

The nodes are those of ``scripts.demo_pool``.
"""
