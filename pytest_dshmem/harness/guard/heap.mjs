// The heap of a runtime that asks hundreds of questions: how much of what is over it may hold before it clears up.
import { setFlagsFromString } from 'node:v8'

// Percent of what is in use. Left to itself a runtime lets garbage grow to about twice of that: a run of 1,540
// questions on one memory ended with 1.5 to 1.6 times what it held after 100, and this way with 1.2 times.
const GARBAGE_PERCENT = 60

export function keepHeapSmall() {
  // The launcher's options are for this process: what a plugin starts may be a Node that does not know them.
  delete process.env.NODE_OPTIONS
  setFlagsFromString(`--heap-growing-percent=${GARBAGE_PERCENT}`)
}
