// Writes a line at the start and at the end of every model call in this process: figures only, no text.
import { appendFileSync } from 'node:fs'

export const name = 'dshmem-recorder'
export const inject = ['llm', 'sessions']

export function apply(ctx, config) {
  // Several processes on one home write to one file: a call is known by its process and number.
  let calls = 0
  const write = (line) => appendFileSync(config.file, JSON.stringify(line) + '\n')

  ctx.on('session/created', (session) => {
    const parent = session.header.parentSession
    if (parent !== undefined) write({ kind: 'child', session: String(session.id), parent: String(parent) })
  })
  ctx.on('llm/stream', (options, next) => {
    calls += 1
    return record(next(), describeCall(`${process.pid}/${calls}`, options), write)
  }, { prepend: true })
}

function describeCall(call, options) {
  return {
    call,
    session: options.sessionId === undefined ? null : String(options.sessionId),
    purpose: options.purpose ?? null,
    model: options.model,
    effort: options.reasoningEffort ?? null,
    startedAt: Date.now(),
  }
}

async function* record(stream, call, write) {
  write({ kind: 'start', ...call })
  const seen = { firstTokenMs: null, usage: null, finish: 'abandoned', failure: null }
  try {
    for await (const chunk of stream) {
      observe(chunk, seen, call.startedAt)
      yield chunk
    }
  } finally {
    write({ kind: 'end', call: call.call, ms: Date.now() - call.startedAt, ...seen })
  }
}

function observe(chunk, seen, startedAt) {
  if (seen.firstTokenMs === null && chunk.type.endsWith('-delta')) seen.firstTokenMs = Date.now() - startedAt
  if (chunk.type === 'usage') seen.usage = chunk.usage
  if (chunk.type === 'finish') {
    seen.finish = chunk.reason.kind
    seen.failure = chunk.reason.failure?.code ?? null
  }
}
