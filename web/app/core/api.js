// The only module that speaks HTTP. It uses the public REST API and nothing else.
import { authorization } from "./credentials.js";

const ROOT = "itc_db";

/** An error answer: `status`, the `error` word and `reason` sentence of the API, and its whole `body`. */
class ApiError extends Error {
  constructor(status, error, reason, body = {}) {
    super(reason);
    this.body = body;
    this.status = status;
    this.error = error;
    this.reason = reason;
  }
}

/** A path under /itc_db with every part percent-encoded: the vhost `/` becomes `%2F`. */
export function path(...parts) {
  return [ROOT, ...parts.map((part) => encodeURIComponent(part))].join("/");
}

/** `?a=b…` of all values that are set. */
function query(values) {
  const set = Object.entries(values).filter(([, value]) => value != null && value !== "");
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

// A service that hangs, or a network that swallows all, answers nothing at all: no request waits longer.
const LIMIT_MS = 60_000;
// Nor does what shows whether all is well: with the shortest refresh this is two of them.
const POLL_LIMIT_MS = 5_000;

/**
 * `fetch` with our credentials only; throws ApiError for every error answer, and where none begins within
 * `limit` ms. Once it has begun, it may take its time.
 */
export async function request(url, { method = "GET", headers = {}, body, signal, limit } = {}) {
  const credentials = authorization();
  const overdue = new AbortController();
  const timer = limit && setTimeout(() => overdue.abort(), limit);
  let response;
  try {
    response = await fetch(url, {
      method,
      signal: AbortSignal.any([overdue.signal, ...(signal ? [signal] : [])]),
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      cache: "no-store",
      // Without credentials of its own the browser never opens its password dialog over our form.
      credentials: "omit",
      headers: {
        accept: "application/json",
        "x-requested-with": "rabbitmq-itc",
        ...(credentials ? { authorization: credentials } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    const reason = overdue.signal.aborted
      ? `The server has not answered for ${limit / 1000} s.`
      : "The server cannot be reached. Is it running?";
    throw new ApiError(0, "unreachable", reason);
  } finally {
    clearTimeout(timer);
  }
  if (response.ok) return response;
  if (response.status === 401) whenRefused();
  throw await refusal(response);
}

let whenRefused = () => {};

/** Sets what to do when the service does not accept our credentials (any more). */
export function onRefused(action) {
  whenRefused = action;
}

async function refusal(response) {
  try {
    const body = await response.json();
    const { error, reason } = body;
    return new ApiError(response.status, error ?? "error", String(reason ?? response.statusText), body);
  } catch {
    return new ApiError(response.status, "error", response.statusText || `HTTP ${response.status}`);
  }
}

/** True if the service has another version of the page by now: nothing more of this one can be loaded. */
export async function isOutdated() {
  try {
    return (await fetch(import.meta.url, { method: "HEAD", cache: "no-store" })).status === 404;
  } catch {
    return false; // it is away
  }
}

const ahead = new Map(); // answers requested ahead, by address; each is taken once
const FRESH_MS = 10_000; // an older answer is not about to be shown any more

function ask(url, signal, limit) {
  const answer = request(url, { signal, limit }).then((response) => response.json());
  return { answer, at: Date.now(), by: authorization() };
}

/** `{data, at}`: what the service answers, and when it was asked, in ms. */
async function getDated(url, signal, limit = LIMIT_MS) {
  const known = ahead.get(url);
  ahead.delete(url);
  const isGood = known && known.by === authorization() && Date.now() - known.at < FRESH_MS;
  const { answer, at } = isGood ? known : ask(url, signal, limit);
  const data = await answer;
  signal?.throwIfAborted(); // what was asked for ahead has no signal
  return { data, at };
}

const getJson = async (url, signal, limit) => (await getDated(url, signal, limit)).data;

/** Requests an answer ahead. One that fails before it is taken leaves no trace. */
function askAhead(url, limit = LIMIT_MS) {
  if (!authorization()) return; // it would be refused, unless the service asks for no password
  const asked = ask(url, undefined, limit);
  ahead.set(url, asked);
  asked.answer.catch(() => ahead.delete(url));
}

export const askEvents = (filters) => askAhead(ROOT + query(filters));
export const askConversations = (filters) => askAhead(path("conversations") + query(filters));
export const askFields = () => askAhead(path("fields"));
export const askTraces = () => askAhead(path("traces"), POLL_LIMIT_MS);

export const api = {
  whoami: (signal) => getJson(path("whoami"), signal),
  signInWays: (signal) => getJson(path("sign-in"), signal, POLL_LIMIT_MS),
  /** Exchanges a code of the identity provider for a token. */
  redeem: (body) =>
    request(path("sign-in"), { method: "POST", body, limit: LIMIT_MS }).then((answer) => answer.json()),
  /** The OpenAPI document. */
  description: (signal) => getJson("openapi.json", signal),
  /** `{data, at}` */
  traces: (signal) => getDated(path("traces"), signal, POLL_LIMIT_MS),
  startTrace: (vhost, wish) =>
    request(path(vhost, "undefined", "undefined", "undefined"), {
      method: "PUT",
      body: wish,
    }),
  stopTrace: (vhost) =>
    request(path(vhost, "undefined", "undefined", "undefined"), { method: "DELETE" }),
  participants: (filters, signal) => getJson(path("participants") + query(filters), signal),
  inHand: (vhost, signal) => getJson(path("in_hand") + query({ vhost }), signal),
  /** Queues and services that became slow; `vhost` may be null. */
  slow: (vhost, signal) => getJson(path("slow") + query({ vhost }), signal),
  /** `filters`: vhost, queue or service, since, until, baseline. */
  durations: (filters, signal) => getJson(path("durations") + query(filters), signal),
  /** Usual times of some queues and services at a time. */
  usual: (vhost, at, queues, services, signal) => {
    const owners = [...queues.map((name) => ["queues", name]), ...services.map((name) => ["services", name])];
    return getJson(`${path("usual")}?${new URLSearchParams([["vhost", vhost], ["at", at], ...owners])}`, signal);
  },
  /** The publishers and receivers of a queue, and what waits. */
  queue: (vhost, queue, signal) => getJson(path("queue") + query({ vhost, queue }), signal),
  hiddenWays: (vhost, signal) => getJson(path("hidden") + query({ vhost }), signal),
  /** Proposed rules that are not adopted. */
  proposals: (vhost, signal) => getJson(path("proposals") + query({ vhost }), signal),
  removeLinkRule: (vhost, name) => request(path("links", vhost, name), { method: "DELETE" }),
  quarantine: (vhost, signal) => getJson(path("quarantine") + query({ vhost }), signal),
  events: (filters, signal) => getJson(ROOT + query(filters), signal),
  event: (id, signal) => getJson(path("events", id), signal),
  /** `side`: causes or effects; `filters`: via, limit, columns, payload. */
  relatives: (id, side, filters, signal) => getJson(path("events", id, side) + query(filters), signal),
  deliveries: (id, signal) => getJson(path("events", id, "deliveries"), signal),
  /** `filters`: via, limit, after. */
  conversation: (event, filters, signal) => getJson(path("conversations", event) + query(filters), signal),
  conversations: (filters, signal) => getJson(path("conversations") + query(filters), signal),
  compare: (a, b, signal) => getJson(path("compare", a, b), signal),
  /** `filters`: via, limit, after, columns, payload. */
  chain: (a, b, filters, signal) => getJson(path("chain", a, b) + query(filters), signal),
  /** `filters`: verdict, limit, after, columns, payload. */
  touched: (ids, filters, signal) =>
    getJson(path("touched") + query({ events: ids.join(","), ...filters }), signal),
  failures: (filters, signal) => getJson(path("failures") + query(filters), signal),
  /** Assertions that are held while events come; `vhost` may be null. */
  assertions: (vhost, signal) => getJson(path("assertions") + query({ vhost }), signal),
  /** `file`: YAML or JSON as text; these and no others. */
  setAssertions: (vhost, file) => request(path("assertions", vhost), { method: "PUT", body: file }),
  removeAssertion: (vhost, name) => request(path("assertions", vhost, name), { method: "DELETE" }),
  /** `filters`: vhost, assertion, limit, before. */
  violations: (filters, signal) => getJson(path("violations") + query(filters), signal),
  reports: (signal) => getJson(path("reports"), signal),
  report: (id, signal) => getJson(path("reports", id), signal),
  fields: (signal) => getJson(path("fields"), signal),
  formats: (signal) => getJson(path("formats"), signal),
  exports: (signal) => getJson(path("exports"), signal),
  deleteExport: (location) => request(relative(location), { method: "DELETE" }),
  /** `period`: since and until; without them the last count. */
  topology: (vhost, period, signal) => getJson(path("topology") + query({ vhost, ...period }), signal),
  /** Starts a job that counts a period of a virtual host, or the last hour; returns its number. */
  countTopology: async (vhost, period) => {
    const url = path("topology") + query({ vhost, ...period });
    const headers = { prefer: "respond-async" };
    return (await (await request(url, { method: "PUT", headers })).json()).id;
  },
  jobs: (signal) => getJson(path("jobs"), signal),
  job: (id, signal) => getJson(path("jobs", id), signal),
  cancelJob: (id) => request(path("jobs", id), { method: "DELETE" }),
  /** Also where it is not ready. */
  ready: async (signal) => {
    try {
      return await getJson("health/ready", signal, POLL_LIMIT_MS);
    } catch (error) {
      if (error.body?.checks) return error.body;
      throw error;
    }
  },
  /** Certainty of answers about a period; `filters`: vhost, since, until. */
  certainty: (filters, signal) => getJson(path("certainty") + query(filters), signal),
  /** Was a message ever here, and where is it; `filters`: id, vhost. */
  where: (filters, signal) => getJson(path("where") + query(filters), signal),
  histogram: (filters, signal) => getJson(path("histogram") + query(filters), signal),
  liveUrl: (filters) => path("live") + query(filters),
  jobProgressUrl: (id) => path("jobs", id, "progress"),
};

/** Starts a job, as these do; returns the summary if it has ended already, or the job to follow. */
async function submit(url, body, method = "PUT") {
  const response = await request(url, { method, headers: { prefer: "respond-async" }, body });
  const answer = await response.json();
  return response.status === 202 ? { job: answer } : { summary: answer };
}

export const startChain = (from, to, file, via) =>
  submit(path("undefined", from, to, file) + query({ via }));
/** From now on, and for what is stored. */
export const adoptProposal = (vhost, { id, alone: of_user }) =>
  submit(path("proposals", id, "adopt") + query({ vhost, past: true, of_user }), undefined, "POST");
/** Reads stored messages by the present rules. */
export const startRestamp = (vhost) => submit(path("restamp") + query({ vhost }), { links: true });
export const startTouched = (id, file) => submit(path("touched", id, file));
/** `filters`: vhost, since, until and what the kind asks; `body`: a file of assertions. */
export const startReport = (kind, filters, body) =>
  submit((kind === "correlations" ? path(kind) : path("reports", kind)) + query(filters), body);

/** Locations in answers are absolute paths; the page may be served below a prefix. */
export function relative(location) {
  return location.replace(/^\//, "");
}

/**
 * Server-sent events over fetch, because the browser's EventSource cannot send our credentials.
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
