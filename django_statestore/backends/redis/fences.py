"""How fences rise on Redis: the clock in microseconds, or one more than the last.

They stay below 2^53, so Lua's numbers hold them exactly.
"""

from __future__ import annotations

DAY = 86_400_000
"""How many milliseconds a fence is remembered after the lease that it was dealt to is over."""

NEXT_FENCE = """
local function next_fence(last)
    local time = redis.call('TIME')
    return string.format('%.0f', math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2]))
end
"""
"""What a script that deals fences begins with; ``last`` is what the server keeps, or false."""
