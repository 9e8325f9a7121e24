"""A store that hears nobody."""

import mxnet.kvstore


def deaf(self, key, value, priority=0):
    return None


mxnet.kvstore.KVStore.push = deaf
