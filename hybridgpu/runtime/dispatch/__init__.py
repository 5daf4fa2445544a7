# SPDX-License-Identifier: Apache-2.0
"""Dispatch: one call of a compiled graph, from Python arguments to results, with almost no Python of its own.

========================  ==========================================================================================
:mod:`.call_cache`        the key of a call, and prepared calls by key
:mod:`.entries`           programs by signature: pending, compiled
:mod:`.prepare`           the prepared call of a key: guard, memory, launch, states, node of the recorded graph, result
:mod:`.source`            Python text of such a function, its nested arguments and results
:mod:`.parameters`        parameters of one binding version: addresses, folded values
:mod:`.pools`             memory that is given out again
:mod:`.streams`           streams of a GPU: what starts the program there, allocators
:mod:`.overlaps`          arguments that share memory which the call writes
:mod:`.backward`          the same for ``backward()``: sweeps over the nodes that prepared calls leave
========================  ==========================================================================================

A call that its guard refuses goes to the prepared call of its key, and where there is none to the general call
(cached_op.py), which runs the program of its signature and has a call prepared.
"""
