// Steps and seconds that one turn may take. A turn over its steps ends as blocked, one over its time as aborted.
export const DEADLINE_REASON = 'dshmem turn deadline'

export function limitTurns(ctx, policies) {
  const timers = new Map()

  function startTimer(session) {
    const agent = ctx.agents.get(session.id)
    if (agent === undefined) return
    const cancel = () => agent.cancel({ kind: 'hook', reason: DEADLINE_REASON })
    timers.set(session.id, setTimeout(cancel, policies.of(agent).turnSeconds * 1000))
  }

  function stopTimer(session) {
    clearTimeout(timers.get(session.id))
    timers.delete(session.id)
  }

  ctx.on('agent/pre-step', async (payload, next) => {
    return payload.step > policies.of(payload.agent).maxSteps ? { kind: 'reject' } : next()
  }, { prepend: true })
  ctx.on('session/event', (session, event) => {
    if (event.type === 'turn/start') startTimer(session)
    if (event.type === 'turn/end') stopTimer(session)
  })
  ctx.on('session/disposed', stopTimer)
  ctx.effect(() => () => timers.forEach((timer) => clearTimeout(timer)), 'dshmem.deadlines')
}
