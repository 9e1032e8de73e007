#!/usr/bin/env bash
# Row positions from 2^32 on: two JavaScript libraries of Roaring bitmaps make other positions of them, each in its own way.
#
# Versions: roaring 2.7.0 and roaring-wasm 1.1.0, of npm (both are of the same author, and wrap CRoaring).
# Source: their type is RoaringBitmap32, for values below 2^32; a position in a deletion vector may be larger, and a JavaScript
#   number holds it exactly. Typed arrays of the language wrap such a number, sets of numbers do not.
# Expected: one answer to a value that does not fit: an error, or nothing added.
# Seen: the constructor of roaring wraps 2^32 + 5 to 5, so that another row would be deleted; its `add` leaves the value out.
#   In roaring-wasm, it is the other way round. `has` says false in both, also where the value has just been added. Negative
#   numbers: the constructor of roaring makes 4294967295 of -1, that of roaring-wasm nothing.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
npm init -y > /dev/null
npm install --silent --no-audit --no-fund roaring@2.7.0 roaring-wasm@1.1.0
cat > program.mjs << 'PROGRAM'
import roaring from 'roaring'
import { RoaringBitmap32 as Wasm, roaringLibraryInitialize } from 'roaring-wasm'

await roaringLibraryInitialize()
const large = 2 ** 32 + 5
for (const [name, Bitmap] of [['roaring', roaring.RoaringBitmap32], ['roaring-wasm', Wasm]]) {
    const added = new Bitmap()
    added.add(large)
    const made = new Bitmap([large])
    console.log(name, 'made', made.toArray(), 'added', added.toArray(), 'has', made.has(large) || added.has(large), 'of -1', new Bitmap([-1]).toArray())
}
PROGRAM
node program.mjs | tee seen.txt
diff seen.txt - << 'SEEN'
roaring made [ 5 ] added [] has false of -1 [ 4294967295 ]
roaring-wasm made [] added [ 5 ] has false of -1 []
SEEN
