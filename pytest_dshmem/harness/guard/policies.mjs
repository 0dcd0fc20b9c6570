// Policies by role. A session gets its role when it is opened; one that was not opened by us is a worker.
import { realpathSync } from 'node:fs'

const POLICY_KEYS = new Set(['tools', 'readRoots', 'maxSteps', 'turnSeconds', 'reasoningEffort', 'maxTokens'])
const NOTHING_ALLOWED = { tools: [], readRoots: [], maxSteps: 1, turnSeconds: 60 }

export function validateConfig(value) {
  const config = value ?? {}
  const unknown = Object.keys(config).find((key) => key !== 'policies' && key !== 'nonce')
  if (unknown !== undefined) return issue(`unknown key ${unknown}`, [unknown])
  if (typeof config.nonce !== 'string') return issue('nonce must be a string', ['nonce'])
  if (config.policies === null || typeof config.policies !== 'object') {
    return issue('policies must map a role to its policy', ['policies'])
  }
  for (const [role, policy] of Object.entries(config.policies)) {
    const problem = policyProblem(policy)
    if (problem !== undefined) return issue(`${role}: ${problem}`, ['policies', role])
  }
  return { value: config }
}

export function createPolicies(configured) {
  const byRole = new Map(Object.entries(configured).map(([role, policy]) => [role, withRealRoots(policy)]))
  const roles = new Map()
  return {
    assign(sessionId, role) {
      if (!byRole.has(role)) throw new Error(`unknown role ${role}`)
      roles.set(sessionId, role)
    },
    forget(sessionId) {
      roles.delete(sessionId)
    },
    of(agent) {
      if (agent === undefined) return NOTHING_ALLOWED
      return byRole.get(roles.get(String(agent.session.id)) ?? 'worker') ?? NOTHING_ALLOWED
    },
  }
}

function policyProblem(policy) {
  const unknown = Object.keys(policy).find((key) => !POLICY_KEYS.has(key))
  if (unknown !== undefined) return `unknown key ${unknown}`
  if (!isListOfStrings(policy.tools)) return 'tools must be a list of names'
  if (!isListOfStrings(policy.readRoots)) return 'readRoots must be a list of folders'
  if (!(policy.maxSteps >= 1)) return 'maxSteps must be at least 1'
  if (!(policy.turnSeconds > 0)) return 'turnSeconds must be positive'
  return undefined
}

function isListOfStrings(value) {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}

function withRealRoots(policy) {
  return { ...policy, readRoots: policy.readRoots.map((root) => realpathSync.native(root)) }
}

function issue(message, path) {
  return { issues: [{ message, path }] }
}
