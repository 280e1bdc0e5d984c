// Services of programs, each in a colour that differs from those beside it.

/** The service that a program is part of: its client's own name, or else its user. */
export const serviceName = (who) => who?.client ?? who?.user;

export const SERVICE_COLORS = 10;
// Colours of the style sheet that are hard to tell apart side by side; a test measures them.
const ALIKE = new Set(["1 4", "1 9", "4 9", "2 7", "2 8", "3 7", "3 10", "5 10"].flatMap((pair) => [pair, pair.split(" ").reverse().join(" ")]));
const isAlike = (a, b) => a === b || ALIKE.has(`${a} ${b}`);

/** The service of each participant, by its number, and the colour of each service, from 1, by its name. */
export class Services {
  constructor() {
    this.of = new Map();
    this.colors = new Map();
  }

  /** Services get their colours in the order in which they were first seen, so that one stays when others come. */
  know(participants) {
    for (const who of [...participants].sort((a, b) => a.participant - b.participant)) {
      const name = serviceName(who);
      this.of.set(who.participant, name);
      if (!this.colors.has(name)) this.colors.set(name, 1 + (this.colors.size % SERVICE_COLORS));
    }
  }

  /** The number of the colour of a service; 0 where it is not known. */
  colorOf(name) {
    return this.colors.get(name) ?? 0;
  }

  /** Gives a service another colour where that of the one at its left is like its own; `names` from left to right. */
  tellApart(names) {
    for (let i = 1; i < names.length; i += 1) {
      const own = this.colorOf(names[i]);
      const beside = [names[i - 1], names[i + 1]].filter((name) => name !== names[i]).map((name) => this.colorOf(name));
      if (!own || names[i] === names[i - 1] || !isAlike(own, beside[0])) continue;
      const others = Array.from({ length: SERVICE_COLORS - 1 }, (_, n) => 1 + ((own + n) % SERVICE_COLORS));
      const free = others.find((color) => !beside.some((one) => isAlike(one, color)));
      this.colors.set(names[i], free ?? others.find((color) => !isAlike(color, beside[0])));
    }
  }
}
