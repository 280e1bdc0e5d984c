import { relative, request } from "./api.js";

/** Saves what the API serves at `location` as file `name`; sends our credentials. */
export async function download(location, name) {
  const response = await request(relative(location), { headers: { accept: "*/*" } });
  saveBlob(await response.blob(), name);
}

/** Saves a text of the page's own as file `name`. */
export function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // Within a minute the browser has begun to read the blob.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
