// An OpenID provider for tests, of the package oidc-provider: anybody signs in, by any name.
// `node provider.mjs PORT PRIVATE_KEY REDIRECT_URI SCOPES` prints a line once it listens.
import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../node/package.json", import.meta.url));
const { Provider } = await import(require.resolve("oidc-provider"));

const [port, keyFile, redirectUri, scope] = process.argv.slice(2);
const key = createPrivateKey(readFileSync(keyFile)).export({ format: "jwk" });
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "rabbit-ui",
      token_endpoint_auth_method: "none",
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  jwks: { keys: [{ ...key, kid: "test", use: "sig", alg: "RS256" }] },
  scopes: ["openid", ...scope.split(" ")],
  pkce: { required: () => true },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:rabbitmq",
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope,
        audience: "rabbitmq",
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log(`listening on ${issuer}`));
