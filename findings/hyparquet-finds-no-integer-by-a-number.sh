#!/usr/bin/env bash
# hyparquet's filters compare 64-bit integers with numbers for ranges, and find nothing for equality.
#
# Versions: hyparquet 1.33.0 and hyparquet-writer 0.17.0 (which writes the file), of npm.
# Source: hyparquet returns INT64 columns as bigint; JavaScript's < and > compare a bigint with a number by value, its === does
#   not.
# Expected: `{ $eq: 5 }` and `{ $gte: 5, $lte: 5 }` find the same rows, or a number is refused for such a column.
# Seen: the range finds the row of 5, `$eq` and `$in` find none and raise nothing, and `$ne` and `$nin` find it, too. With 5n,
#   all are right. On columns of 32 bits, where values are numbers, 5 is right and 5n finds nothing.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
npm init -y > /dev/null
npm install --silent --no-audit --no-fund hyparquet@1.33.0 hyparquet-writer@0.17.0
cat > program.mjs << 'PROGRAM'
import { writeFileSync } from 'node:fs'
import { asyncBufferFromFile, parquetQuery } from 'hyparquet'
import { parquetWriteBuffer } from 'hyparquet-writer'

const columnData = [{ name: 'long', data: [4n, 5n, 6n], type: 'INT64' }, { name: 'int', data: [4, 5, 6], type: 'INT32' }]
writeFileSync('t.parquet', Buffer.from(parquetWriteBuffer({ columnData })))
const file = await asyncBufferFromFile('t.parquet')
for (const [column, value] of [['long', 5], ['long', 5n], ['int', 5], ['int', 5n]]) {
    const counts = []
    for (const filter of [{ $eq: value }, { $in: [value] }, { $gte: value, $lte: value }, { $ne: value }]) {
        counts.push((await parquetQuery({ file, filter: { [column]: filter } })).length)
    }
    console.log(column, value, '$eq, $in, $gte and $lte, $ne:', counts.join(' '))
}
PROGRAM
node program.mjs | tee seen.txt
diff seen.txt - << 'SEEN'
long 5 $eq, $in, $gte and $lte, $ne: 0 0 1 3
long 5n $eq, $in, $gte and $lte, $ne: 1 1 1 2
int 5 $eq, $in, $gte and $lte, $ne: 1 1 1 2
int 5n $eq, $in, $gte and $lte, $ne: 0 0 1 3
SEEN
