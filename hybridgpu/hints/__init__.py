# SPDX-License-Identifier: Apache-2.0
"""What to write instead: texts that end errors. Read by errors alone."""
