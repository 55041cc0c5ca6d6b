// Reads a text/event-stream body. `fetch` and not EventSource: that one can send no key.

// Yields {id, event, data}; ends when the body ends. Comment lines are dropped, which is all that
// keep-alives need.
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let fields = {id: null, event: null, data: []};
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r/u);
      rest = lines.pop();
      for (const line of lines) {
        if (line === '') {
          if (fields.data.length > 0) yield {...fields, data: fields.data.join('\n')};
          fields = {id: null, event: null, data: []};
          continue;
        }
        const colon = line.indexOf(':');
        if (colon === 0) continue;
        const name = colon < 0 ? line : line.slice(0, colon);
        const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /u, '');
        if (name === 'data') fields.data.push(text);
        else if (name === 'id') fields.id = text;
        else if (name === 'event') fields.event = text;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
