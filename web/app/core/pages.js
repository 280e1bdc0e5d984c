// A list that is asked for page by page, as far as somebody wants to see it.
import { useRef } from "../../vendor/hooks.js";
import { useResource } from "./resource.js";

/**
 * `load(next, signal)` returns a page with `next`, or null at the end; `next` is undefined for the first.
 * Returns what `useResource` does, with the pages so far as `data`, whether there are `further` ones, whether one
 * is `coming`, and `more()`, which takes one more. A refresh loads all of them again, so that no item falls between two.
 */
export function usePages(load, inputs, options) {
  const key = JSON.stringify(inputs);
  const wanted = useRef({ key, pages: 1 });
  if (wanted.current.key !== key) wanted.current = { key, pages: 1 };
  const { pages: most } = wanted.current;
  const loaded = useResource((signal) => pagesOf((next) => load(next, signal), (pages) => pages.length >= most), [key], options);
  const more = () => {
    wanted.current.pages += 1;
    loaded.reload();
  };
  const further = loaded.data != null && loaded.data.at(-1).next != null;
  const coming = further && !loaded.error && loaded.data.length < wanted.current.pages;
  return { ...loaded, further, coming, more };
}

/** The pages of `load(next)`, until they are `enough(pages)` or no more follow. */
export async function pagesOf(load, enough) {
  const pages = [await load()];
  while (pages.at(-1).next != null && !enough(pages)) pages.push(await load(pages.at(-1).next));
  return pages;
}
