import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { findProvider, leaveForProvider } from "../core/provider.js";
import { signIn, signInError } from "../core/session.js";
import { Alert } from "../ui/panel.js";

export function SignIn() {
  const form = useRef(null);
  const [busy, setBusy] = useState(false);
  const [provider, setProvider] = useState(null);
  useEffect(() => {
    const gone = new AbortController();
    findProvider(gone.signal).then(setProvider, () => {}); // a password does all the same
    return () => gone.abort();
  }, []);
  // `autofocus` works only once per page, so not after signing out.
  useEffect(() => form.current.elements.name.focus(), []);

  const submit = async (event) => {
    event.preventDefault();
    const fields = new FormData(form.current);
    setBusy(true);
    await signIn(fields.get("name"), fields.get("password"));
    setBusy(false);
  };

  const leave = async () => {
    setBusy(true);
    try {
      await leaveForProvider(provider);
    } catch (error) {
      signInError.value = error.message;
      setBusy(false);
    }
  };

  return html`<main class="sign-in">
    <div>
      <form ref=${form} onSubmit=${submit} aria-labelledby="sign-in-title">
        <h1 class="brand" id="sign-in-title"><img src="icon.svg" alt="" />rabbitmq-itc</h1>
        <p class="soft">Sign in with a user of the RabbitMQ broker that has the tag
          <i> monitoring</i> or <i>administrator</i>.</p>
        ${signInError.value && html`<${Alert}>${signInError.value}<//>`}
        <label class="field"><span>User name</span>
          <input class="input" name="name" autocomplete="username" autocapitalize="none"
            spellcheck=${false} required />
        </label>
        <label class="field"><span>Password</span>
          <input class="input" name="password" type="password" autocomplete="current-password" />
        </label>
        <button class="button main" disabled=${busy}>${busy ? "Signing in …" : "Sign in"}</button>
        ${provider && html`<button class="button" type="button" disabled=${busy} onClick=${leave}>
          Sign in with the broker's provider</button>`}
      </form>
      <p class="faint small sign-in-foot">Kept in this browser tab only, until you sign out.</p>
    </div>
  </main>`;
}
