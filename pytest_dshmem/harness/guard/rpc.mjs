// JSON-RPC methods of the evaluation: status, open, cancel, dispose, replay.
import { replaySession } from './replay.mjs'

const ACTIVE = 2

export function serveEvaluationMethods(ctx, policies, nonce) {
  const methods = {
    'dshmem/status': () => status(ctx, nonce),
    'dshmem/open': (server, params) => openSession(server, policies, params),
    'dshmem/cancel': (_server, params) => cancelTurn(ctx, params),
    'dshmem/dispose': (server, params) => disposeSession(server, policies, params),
    'dshmem/replay': (server, params) => replaySession(ctx, agentOptionsOf(server), params),
  }
  ctx.effect(async () => {
    const module = await ctx.loader.import('@deepseek-ai/dsh-sdk-jsonrpc-server', () => [])
    const prototype = module.HarnessSdkJsonRpcServer.prototype
    const original = prototype.handleRequest
    prototype.handleRequest = async function handleRequest(method, params) {
      const own = methods[method]
      return own === undefined ? original.call(this, method, params) : own(this, params)
    }
    return () => {
      prototype.handleRequest = original
    }
  }, 'dshmem.rpc')
}

function status(ctx, nonce) {
  const rows = [...ctx.loader.entries()].filter((row) => !row.options.group && !row.disabled)
  const isActive = (row) => row.fiber?.state === ACTIVE
  return {
    nonce,
    pid: process.pid,
    residentBytes: process.memoryUsage().rss,
    tools: ctx.tools.schemas().map((tool) => tool.name),
    active: rows.filter(isActive).map((row) => row.options.id),
    inactive: rows.filter((row) => !isActive(row)).map((row) => row.options.id),
  }
}

async function openSession(server, policies, { sessionId, role, cwd }) {
  if (server.sessions.has(sessionId)) throw new Error(`session ${sessionId} is open already`)
  policies.assign(sessionId, role)
  const handle = await server.ctx.agents.create({
    sessionId,
    meta: { cwd },
    agentOptions: agentOptionsOf(server),
  })
  server.sessions.set(sessionId, { handle, failure: undefined })
  return {}
}

function agentOptionsOf(server) {
  return { provider: server.provider, model: server.model }
}

function cancelTurn(ctx, { sessionId }) {
  ctx.agents.get(sessionId)?.cancel({ kind: 'user' })
  return {}
}

async function disposeSession(server, policies, { sessionId }) {
  const record = server.sessions.get(sessionId)
  if (record !== undefined) {
    server.sessions.delete(sessionId)
    await record.handle.dispose()
  }
  policies.forget(sessionId)
  return {}
}
