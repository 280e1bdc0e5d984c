/** Gives a canvas as many pixels as its box has on this screen; the context draws in CSS pixels. */
export function fitted(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

/** A straight line, `[x1, y1, x2, y2]`, in the context's stroke style or in `style`. */
export function drawLine(context, [x1, y1, x2, y2], style = {}, dash = []) {
  Object.assign(context, style).beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}
