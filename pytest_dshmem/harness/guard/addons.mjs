// Native addons that lie inside of the runtime's executable: each is copied out alone.
//
// Left to itself the executable copies out all packages around an addon, 81 MB in 2,700 files, and every further
// process compares them one by one. Nothing else runs meanwhile, and it happens in the middle of the first turn.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

const INSIDE_OF_THE_EXECUTABLE = '/snapshot/'

export function copyAddonsOutAlone(ctx) {
  ctx.effect(() => {
    const load = process.dlopen
    process.dlopen = function dlopen(module, file, ...flags) {
      if (file.startsWith(INSIDE_OF_THE_EXECUTABLE) && loadsAlone(load, module, file, flags)) return
      load.call(process, module, file, ...flags)
    }
    return () => {
      process.dlopen = load
    }
  }, 'dshmem.addons')
}

// An addon that needs a file beside it does not load alone, and goes the executable's way.
function loadsAlone(load, module, file, flags) {
  try {
    load.call(process, module, copyOf(file), ...flags)
    return true
  } catch {
    return false
  }
}

function copyOf(file) {
  const copy = join(mkdtempSync(join(tmpdir(), 'addon-')), basename(file))
  writeFileSync(copy, readFileSync(file), { mode: 0o700 })
  return copy
}
