"""A memory system that needs no model: it keeps what was said in a session when that session is disposed of.

It also notes every event of a session's life that it hears of, in the order in which it hears of them.
"""

from pathlib import Path

from pytest_dshmem.harness.memory_system import MemorySystem, load_memory_system

PLUGIN = """
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'

export const name = 'capturing-memory'
export const inject = ['sessions', 'agents']

function said({ type, data }) {
  const message = type === 'assistant/message' ? data.message : data
  const spoken = type === 'user/message' || type === 'assistant/message'
  return spoken ? [message.content.map(({ text }) => text).join('')] : []
}

export function apply(ctx, { root }) {
  const heard = (line) => appendFileSync(join(root, 'heard.txt'), line + '\\n')
  ctx.on('session/created', () => heard('session/created'))
  ctx.on('session/event', (_session, { type }) => heard(`session/event ${type}`))
  ctx.on('agent/created', () => heard('agent/created'))
  ctx.on('agent/disposed', () => heard('agent/disposed'))
  ctx.on('session/disposed', (session) => {
    heard('session/disposed')
    const lines = session.snapshotEvents().flatMap(said)
    appendFileSync(join(root, 'captured.md'), lines.map((line) => line + '\\n').join(''))
  })
}
"""

PROFILE = """
name = "capturing"
title = "A system that captures on its own"
version = "1"
verified = true
rows = ["capturing-memory"]
memory_roots = ["memory"]
writes_during_qa = false
captures_replay = true
redirect_home = false
tools = { ingest = ["read"], qa = ["read"] }
consolidation = { trigger = "none" }
usage = { metering = "recorder" }

[install]
kind = "file"
row = "capturing-memory"
path = "plugin/plugin.mjs"
config = { root = "{memory_root}" }

[[state]]
name = "memory"
base = "dsh-home"
path = "memory"
kind = "markdown"
include = ["*.md"]
"""


def capturing_memory(folder: Path) -> MemorySystem:
    """Writes the system into a folder and loads it."""
    (folder / "plugin").mkdir(parents=True)
    (folder / "plugin" / "plugin.mjs").write_text(PLUGIN, "utf-8")
    (folder / "capturing.toml").write_text(PROFILE, "utf-8")
    return load_memory_system(str(folder / "capturing.toml"), folder)
