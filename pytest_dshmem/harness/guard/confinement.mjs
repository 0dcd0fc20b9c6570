// Reads stay inside the memory: both the path as written and the file that it leads to.
import { realpathSync } from 'node:fs'
import { isAbsolute, resolve, sep } from 'node:path'

/** The reason why a read is refused, or undefined where it is allowed. */
export function confineReads(call, roots) {
  const wanted = call.arguments?.file_path
  if (typeof wanted !== 'string' || wanted.length === 0) return 'A file_path is needed.'
  const workspace = call.agent?.session.header.cwd ?? process.cwd()
  // `a/../b` names two files when `a` is a link: the one the shell sees and the one the disk has.
  const physical = isAbsolute(wanted) ? wanted : `${workspace}${sep}${wanted}`
  const lexical = resolve(workspace, wanted)
  for (const candidate of [physical, lexical]) {
    const real = realPath(candidate)
    if (real === undefined) return 'There is no such memory file.'
    if (!roots.some((root) => isInside(real, root))) return 'That file is not part of the memory.'
  }
  return undefined
}

function realPath(path) {
  try {
    return realpathSync.native(path)
  } catch {
    return undefined
  }
}

function isInside(path, root) {
  return path === root || path.startsWith(root + sep)
}
