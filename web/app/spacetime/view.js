// The part of the space-time diagram in view, and its moves. Rows and lanes are units of the
// diagram, pixels those of the screen.

export const GUTTER = 92; // for the row labels
const MARGIN_ROWS_PIXELS = 40;
const FIT_PIXELS = 24; // above all rows and below, for the names of the first and for what waits
const LEAST_LANE = 3;
const MOST_LANE = 420;
const DEFAULT_LANE = 52;
const MOST_ROW = 64;
const DEFAULT_ROW = 24;

/** The distance between a lane and the middle of a message to itself, in pixels. */
export const bulgeOf = ({ lanePixels }) => Math.min(26, lanePixels * 0.4);

export class View {
  constructor() {
    this.width = 0;
    this.height = 0;
    this.left = 0; // how many pixels the lanes are moved to the left
    this.top = 0; // the row at the upper edge
    this.rowPixels = DEFAULT_ROW;
    this.lanePixels = DEFAULT_LANE;
    this.lanes = 0;
    this.rows = 0;
    this.spread = true; // lanes share the width until their width is chosen
  }

  get bottom() {
    return this.top + this.height / this.rowPixels;
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.extent(this.lanes, this.rows);
  }

  /** Sets the size of the diagram. A few lanes share the width; many keep the default width. */
  extent(lanes, rows) {
    this.rows = rows;
    this.lanes = lanes;
    const room = this.width - GUTTER;
    if (this.spread && lanes && room > 0) {
      this.lanePixels = Math.min(MOST_LANE, Math.max(DEFAULT_LANE, room / lanes));
    }
    this.clamp();
  }

  x(lane) {
    return GUTTER + (lane + 0.5) * this.lanePixels - this.left;
  }

  y(row) {
    return (row - this.top) * this.rowPixels;
  }

  laneAt(x) {
    return (x - GUTTER + this.left) / this.lanePixels - 0.5;
  }

  rowAt(y) {
    return this.top + y / this.rowPixels;
  }

  pan(dx, dy) {
    this.left -= dx;
    this.top -= dy / this.rowPixels;
    this.clamp();
  }

  /** Zooms in (factor > 1) or out; the row under `y` stays where it is. */
  zoomRows(factor, y = this.height / 2) {
    const row = this.rowAt(y);
    this.rowPixels = Math.min(MOST_ROW, Math.max(this.leastRow, this.rowPixels * factor));
    this.top = row - y / this.rowPixels;
    this.clamp();
  }

  zoomLanes(factor, x = this.width / 2) {
    this.spread = false;
    const lane = this.laneAt(x);
    this.lanePixels = Math.min(MOST_LANE, Math.max(this.leastLane, this.lanePixels * factor));
    this.left = (lane + 0.5) * this.lanePixels - x + GUTTER;
    this.clamp();
  }

  get leastLane() {
    return Math.min(LEAST_LANE, (this.width - GUTTER) / Math.max(1, this.lanes));
  }

  get leastRow() {
    return Math.min(DEFAULT_ROW, this.height / Math.max(1, this.rows + 2));
  }

  fit() {
    this.rowPixels = Math.min(MOST_ROW, Math.max(1, this.height - 2 * FIT_PIXELS) / Math.max(1, this.rows));
    this.top = -FIT_PIXELS / this.rowPixels;
    this.left = 0;
    this.spread = false;
    if (this.lanes) this.lanePixels = Math.min(MOST_LANE, (this.width - GUTTER) / this.lanes);
    this.clamp();
  }

  /** Brings the rows between two into view. */
  fitRows(first, last) {
    const rows = last - first + 4;
    this.rowPixels = Math.max(this.leastRow, Math.min(MOST_ROW, this.height / rows));
    this.top = first - 2;
    this.clamp();
  }

  /** Brings a row and lane into view, in the middle if it was out of view or with `centre`. */
  reveal(row, lane, { centre = false } = {}) {
    const margin = MARGIN_ROWS_PIXELS / this.rowPixels;
    if (centre || row < this.top + margin || row > this.bottom - margin) {
      this.top = row - this.height / this.rowPixels / 2;
    }
    const x = this.x(lane);
    if (x < GUTTER + 20 || x > this.width - 20) {
      this.left += x - (GUTTER + this.width) / 2;
    }
    this.clamp();
  }

  /** Puts a row in the middle. */
  centre(row) {
    this.top = row - this.height / this.rowPixels / 2;
    this.clamp();
  }

  clamp() {
    const margin = MARGIN_ROWS_PIXELS / this.rowPixels;
    const most = this.rows + margin - this.height / this.rowPixels;
    this.top = Math.max(-margin, Math.min(this.top, Math.max(-margin, most)));
    const wide = this.lanes * this.lanePixels - (this.width - GUTTER);
    this.left = Math.max(0, Math.min(this.left, Math.max(0, wide)));
  }
}
