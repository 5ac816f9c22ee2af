// Writes src/messages.js: the two constant messages of the stream form, and where the second one's
// numbers are, from spec/objects/. `npm run messages`; a test says when it is due.

import { readFileSync, writeFileSync } from 'node:fs';

/** The text of src/messages.js. */
export function messages() {
  const spec = (name) => readFileSync(new URL(`../../../spec/objects/${name}`, import.meta.url));
  const layout = JSON.parse(spec('layout.json').toString('utf8'));
  const text = (name) => {
    const lines = spec(name).toString('base64').match(/.{1,92}/g);
    return lines.map((line) => `  '${line}'`).join(' +\n');
  };
  return `// Made by scripts/messages.js from spec/objects/; do not edit.

/** The schema message, in base64. */
export const SCHEMA_BASE64 =
${text('schema.bin')};

/** The batch message with zeros for its numbers, in base64. */
export const BATCH_BASE64 =
${text('batch.bin')};

/** Where the batch message has the length of the body. */
export const BODY_LENGTH_AT = ${layout.body_length_at};
/** Where its field nodes start, each a length and a null count, and how many there are. */
export const NODES_AT = ${layout.nodes_at};
export const NODE_COUNT = ${layout.nodes};
/** Where its buffers start, each an offset and a length, and how many there are. */
export const BUFFERS_AT = ${layout.buffers_at};
export const BUFFER_COUNT = ${layout.buffers};
`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  writeFileSync(new URL('../src/messages.js', import.meta.url), messages());
}
