// Past sessions put into the session store as they were: every turn with its text and date, no model call.

/** Creates a finished session from turns `{role, text, time}` (time in ms) and makes it durable. */
export async function replaySession(ctx, { sessionId, cwd, turns }) {
  const seed = turns.flatMap((turn, index) => turnEvents(turn, index))
  const events = seed.map((event, seq) => ({ ...event, seq }))
  const createdAt = turns.length > 0 ? turns[0].time : Date.now()
  const session = ctx.sessions.create(sessionId, { seed: events, meta: { cwd, createdAt } })
  await ctx.sessions.flush(session)
  return { events: events.length }
}

/** The user and assistant texts of a session, live or persisted, in order. */
export async function readSession(ctx, { sessionId }) {
  const events = await sessionEvents(ctx, sessionId)
  return { turns: events.map(messageOf).filter((message) => message !== undefined) }
}

async function sessionEvents(ctx, sessionId) {
  const live = ctx.sessions.get(sessionId)
  if (live !== undefined) return live.snapshotEvents()
  const persistence = ctx.get('sessionPersistence')
  const stored = await persistence.open(sessionId, 'read')
  try {
    return (await stored.read()).events
  } finally {
    await stored.close()
  }
}

function messageOf(event) {
  const message = event.type === 'assistant/message' ? event.data.message : event.data
  if (event.type !== 'user/message' && event.type !== 'assistant/message') return undefined
  if (message.source?.kind === 'runtime-context') return undefined
  const text = message.content.filter((block) => block.type === 'text').map((block) => block.text).join('')
  return { role: message.role, text, time: event.time }
}

function turnEvents(turn) {
  return [turn]
}
