// Colours for canvases, which cannot read the tokens of the style sheet themselves.
const probe = document.createElement("i");
probe.hidden = true;
document.documentElement.append(probe);

/** The colour of a token in the theme that is shown, as the browser computes it. */
export function color(token, alpha = 1) {
  const mix = alpha < 1 ? `color-mix(in srgb, var(${token}) ${alpha * 100}%, transparent)` : null;
  probe.style.color = mix ?? `var(${token})`;
  return getComputedStyle(probe).color;
}

/** The colour of a token as [red, green, blue], 0 to 255, for pixel buffers. */
export function channels(token) {
  const canvas = new OffscreenCanvas(1, 1);
  const context = canvas.getContext("2d");
  context.fillStyle = color(token);
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return [red, green, blue];
}

/** A colour from `channels` as 32 bits of a pixel buffer, little endian as browsers' machines are. */
export const packed = ([red, green, blue], alpha = 1) =>
  ((Math.round(alpha * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
