# SPDX-License-Identifier: Apache-2.0
"""Graph to graph, and graph to groups. Each pass is one function without hidden state."""
