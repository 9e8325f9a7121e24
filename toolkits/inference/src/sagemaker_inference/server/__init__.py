"""The server: a supervisor that owns the port and the connections, and workers that answer on them.

``supervisor`` accepts, answers ``/ping`` and passes every other connection to a ``worker`` as a file descriptor. What
it must know of a worker that is computing, or dead, it reads from the ``board``, which is shared memory.
"""
