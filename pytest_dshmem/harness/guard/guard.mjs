// The evaluation guard: what a session may see, run, read and spend. Without it the runtime does not start.
import { copyAddonsOutAlone } from './addons.mjs'
import { confineReads } from './confinement.mjs'
import { keepHeapSmall } from './heap.mjs'
import { limitTurns } from './limits.mjs'
import { createPolicies, validateConfig } from './policies.mjs'
import { serveEvaluationMethods } from './rpc.mjs'

export const name = 'dshmem-guard'
export const inject = ['tools', 'systemPrompt', 'agents', 'sessions', 'loader']
export const Config = {
  '~standard': { version: 1, vendor: 'dshmem', validate: validateConfig },
}

export function apply(ctx, config) {
  const policies = createPolicies(config.policies)
  const denial = createDenial(policies)

  // Two stages refuse a call: the outer one before other plugins see it, the inner one that none can override.
  ctx.on('tools/pre-execute', async (call, next) => {
    const reason = denial(call)
    return reason === undefined ? next() : { kind: 'deny', reason }
  }, { prepend: true })
  ctx.tools.guard(denial)

  keepHeapSmall()
  copyAddonsOutAlone(ctx)
  showAllowedToolsOnly(ctx, policies)
  setRequestOptions(ctx, policies)
  limitTurns(ctx, policies)
  serveEvaluationMethods(ctx, policies, config.nonce)
  ctx.provide('dshmemGuard', { nonce: config.nonce })
}

function createDenial(policies) {
  return function denial(call) {
    const policy = policies.of(call.agent)
    if (!policy.tools.includes(call.name)) return `The tool "${call.name}" is not available here.`
    if (call.name === 'read') return confineReads(call, policy.readRoots)
    return undefined
  }
}

function showAllowedToolsOnly(ctx, policies) {
  ctx.on('system-prompt/assemble', async (_assembly, request, next) => {
    const assembly = await next()
    const policy = policies.of(request.agent)
    return { ...assembly, tools: assembly.tools.filter((tool) => policy.tools.includes(tool.name)) }
  }, { prepend: true })
}

function setRequestOptions(ctx, policies) {
  ctx.on('agent/request', async (payload, next) => {
    const request = await next()
    const { reasoningEffort, maxTokens } = policies.of(payload.agent)
    return {
      ...request,
      ...(reasoningEffort === undefined ? {} : { reasoningEffort }),
      ...(maxTokens === undefined ? {} : { maxTokens }),
    }
  }, { prepend: true })
}
