import { relative, request } from "./api.js";

/** Saves what the API serves at `location` as file `name`; sends our credentials. */
export async function download(location, name) {
  const response = await request(relative(location), { headers: { accept: "*/*" } });
  saveBlob(await response.blob(), name);
}

/** Saves what the page has made as file `name`. */
export function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // Within a minute the browser has begun to read the blob.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The first `most` rows of a JSON lines export, and whether there are `more`. */
export async function readJsonLines(location, most, signal) {
  const response = await request(relative(location), { headers: { accept: "*/*" }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const rows = [];
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) rows.push(JSON.parse(line));
    if (done) return { rows: rows.slice(0, most), more: rows.length > most };
    if (rows.length > most) {
      await reader.cancel();
      return { rows: rows.slice(0, most), more: true };
    }
  }
}
