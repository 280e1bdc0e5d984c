// Names of participants as people say them: `stock` for `stock (guest@127.0.0.1)`, where no other is called so.
const SAID = [/^(.+) \(.*@.*\)(?: #\d+)?$/, /^(.+)@[^@]+$/];

/** `stock` of `stock (guest@127.0.0.1)`, `orders` of `orders@10.0.0.7`. */
export const serviceIn = (name) => SAID.map((form) => form.exec(name)?.[1]).find(Boolean) ?? name;

/** A sentence of the service with these names as `short` has them. */
export const inShort = (sentence, names, short) =>
  [...names].sort((a, b) => b.length - a.length).reduce((text, name) => text.replaceAll(name, () => short(name)), sentence);

/** `(name) => name`: the short one where it means only one of all these names. */
export function shortOf(names) {
  const meant = new Map();
  for (const one of [...new Set(names)].map(serviceIn)) meant.set(one, (meant.get(one) ?? 0) + 1);
  return (name) => {
    const one = serviceIn(name);
    return meant.get(one) === 1 ? one : name;
  };
}
