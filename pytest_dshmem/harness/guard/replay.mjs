// Past sessions put into the session store as they were: every turn with its text and date, no model call.

// A message of the assistant must name a model. This one says that none was asked.
const NO_MODEL = { kind: 'model', provider: 'dshmem', model: 'replay' }

/**
 * Stores the finished session {sessionId, cwd, createdAt, turns: [{role, text, time}]} (times in ms), then
 * opens and closes it once, as a session that comes to its end: memory systems learn of it that way. Returns
 * {createdAt, turns} as an open session showed them.
 */
export async function replaySession(ctx, agentOptions, past) {
  await storeSession(ctx, past)
  const handle = await ctx.agents.resume({ resumeSessionId: past.sessionId, agentOptions })
  try {
    const session = ctx.sessions.get(past.sessionId)
    return spokenIn(session.header, session.snapshotEvents())
  } finally {
    await handle.dispose()
  }
}

async function storeSession(ctx, { sessionId, cwd, createdAt, turns }) {
  const seed = eventsOf(sessionId, createdAt, turns)
  const session = ctx.sessions.prepare(sessionId, { seed, meta: { cwd, createdAt } })
  const stored = await ctx.get('sessionPersistence').create(session.header)
  try {
    await stored.append(session.snapshotEvents())
    await stored.flush()
  } finally {
    await stored.close()
  }
}

function spokenIn(header, events) {
  const turns = events.map(turnOf).filter((turn) => turn !== undefined)
  return { createdAt: header.createdAt, turns }
}

function turnOf({ type, time, data }) {
  const message = { 'user/message': data, 'assistant/message': data.message }[type]
  if (message === undefined) return undefined
  return { role: message.role, text: message.content.map(({ text }) => text).join(''), time }
}

/** A turn of the harness is what the user says and all that the assistant answers to it. */
function eventsOf(sessionId, createdAt, turns) {
  const said = turns.map((turn, index) => ({ ...turn, id: `${sessionId}-${index + 1}` }))
  const exchanges = splitWhere(said, (turn, before) => turn.role === 'user' && before.role === 'assistant')
  const events = exchanges.flatMap((exchange, index) => turnEvents(exchange, index + 1))
  // Whoever opens a log that does not end in this marker adds it, with the date of that day.
  const time = turns.at(-1)?.time ?? createdAt
  return [...events, { type: 'session/end-seed', time, data: {} }].map((event, seq) => ({ ...event, seq }))
}

function turnEvents(exchange, turn) {
  const steps = splitWhere(exchange, (_turn, before) => before.role === 'assistant')
  return [
    { type: 'turn/start', time: exchange[0].time, data: { turn } },
    ...steps.flatMap((said, index) => stepEvents(said, { turn, step: index + 1 })),
    { type: 'turn/end', time: exchange.at(-1).time, data: { turn, reason: { kind: 'completed' } } },
  ]
}

function stepEvents(said, place) {
  return [
    { type: 'step/start', time: said[0].time, data: place },
    ...said.map((turn) => messageEvent(turn, place)),
    { type: 'step/end', time: said.at(-1).time, data: place },
  ]
}

function messageEvent({ id, role, text, time }, place) {
  const content = [{ type: 'text', text }]
  if (role === 'user') {
    const data = { id, role, source: { kind: 'user' }, content }
    return { type: 'user/message', time, data, surfaceOp: 'append' }
  }
  const data = { ...place, message: { id, role, source: NO_MODEL, content }, stream: [] }
  return { type: 'assistant/message', time, data, surfaceOp: 'append' }
}

/** Cuts a list before every item for which `begins(item, itemBefore)` holds. */
function splitWhere(items, begins) {
  const parts = []
  items.forEach((item, index) => {
    if (index === 0 || begins(item, items[index - 1])) parts.push([])
    parts.at(-1).push(item)
  })
  return parts
}
