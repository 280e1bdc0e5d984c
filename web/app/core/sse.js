// Server-sent events over fetch: the browser's EventSource cannot send our credentials.
import { request } from "./api.js";

/**
 * Calls `onEvent({id, data})` for each event until the stream ends or `signal` aborts.
 * `data` is parsed JSON. `onId(id)` gets ids that come without data: where to resume although nothing
 * passed the filters. Resolves at the end of the stream, rejects with ApiError.
 */
export async function stream(url, { signal, lastEventId, onEvent, onId = () => {} }) {
  const headers = { accept: "text/event-stream" };
  if (lastEventId) headers["last-event-id"] = String(lastEventId);
  const response = await request(url, { signal, headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = lineParser(onEvent, onId);
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parser(value);
    }
  } finally {
    reader.cancel().catch(() => {}); // the stream may have ended already
  }
}

function lineParser(onEvent, onId) {
  let rest = "";
  let event = { id: null, data: [] };
  const line = (text) => {
    if (text === "") {
      if (event.data.length) onEvent({ id: event.id, data: JSON.parse(event.data.join("\n")) });
      else if (event.id) onId(event.id);
      event = { id: null, data: [] };
    } else if (text.startsWith("data:")) {
      event.data.push(text.slice(5).replace(/^ /, ""));
    } else if (text.startsWith("id:")) {
      event.id = text.slice(3).trim();
    }
  };
  return (chunk) => {
    const lines = (rest + chunk).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    lines.forEach(line);
  };
}
