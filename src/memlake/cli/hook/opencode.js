// memlake: tells opencode what was remembered, and keeps what it did. Written by `memlake hook install`; not to be edited.
import { spawn } from "node:child_process"
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const PROGRAM = ["memlake"]
const SECONDS = 10 // that an answer is waited for

// Starts one event. Its input is a file and it has a group of its own, so that it ends well even if opencode ends before.
function start(event, given, stdout) {
  const folder = mkdtempSync(join(tmpdir(), "memlake-"))
  try {
    writeFileSync(join(folder, "given.json"), JSON.stringify(given), { mode: 0o600 })
    const input = openSync(join(folder, "given.json"), "r")
    const [program, ...rest] = [...PROGRAM, "hook", event, "--client", "opencode"]
    try {
      return spawn(program, rest, { cwd: given.cwd, stdio: [input, stdout, "ignore"], detached: true })
    } finally {
      closeSync(input)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// What one event answers, "" for nothing, whatever goes wrong: an agent must not stop for its memory.
function run(event, given, stdout) {
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(""), SECONDS * 1000)
    const end = (text) => (clearTimeout(late), resolve(text))
    try {
      const child = start(event, given, stdout)
      let out = ""
      child.stdout?.setEncoding("utf8").on("data", (data) => (out += data))
      child.on("error", () => end(""))
      child.on("close", () => {
        try {
          end(String(JSON.parse(out).additionalContext ?? ""))
        } catch {
          end("")
        }
      })
    } catch {
      end("")
    }
  })
}

export const Memlake = async ({ directory }) => {
  const sessions = new Map() // id -> { parent, told, source, said }
  let kept = Promise.resolve() // what is kept is kept in the order it was said
  const find = (id) => sessions.get(id) ?? (sessions.set(id, { source: "startup" }), sessions.get(id))
  const keep = (event, id, more) => (kept = kept.then(() => run(event, give(id, more), "ignore")))
  const give = (id, more) => {
    const parent = find(id).parent
    return { cwd: directory, session_id: parent ?? id, ...(parent ? { agent_id: id } : {}), ...more }
  }
  const end = (id, reason) => find(id).told && !find(id).parent && keep("session-end", id, { reason })

  return {
    event: async ({ event }) => {
      const id = event.properties?.sessionID ?? event.properties?.info?.id
      if (!id) return
      const session = find(id)
      if (event.type === "session.created") session.parent = event.properties.info?.parentID
      else if (event.type === "session.compacted") Object.assign(session, { told: false, source: "compact" })
      else if (event.type === "session.idle" && session.said) {
        if (!session.parent) keep("stop", id, { last_assistant_message: session.said })
        session.said = ""
      } else if (event.type === "session.deleted") {
        end(id, "deleted")
        sessions.delete(id)
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const session = find(sessionID)
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      const asked = []
      if (!session.told && session.parent) asked.push(["subagent-start", {}])
      if (!session.told && !session.parent) asked.push(["session-start", { source: session.source }])
      if (typed.length && !session.parent) asked.push(["prompt", { prompt: typed.join("\n") }])
      session.told = true
      for (const [event, more] of asked) {
        const text = await run(event, give(sessionID, more), "pipe")
        const id = `prt_${message.id.slice(4)}-${event}`
        if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
      }
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      if (text.trim()) find(sessionID).said = text
    },
    "experimental.session.compacting": async ({ sessionID }) => {
      if (!find(sessionID).parent) await keep("pre-compact", sessionID, { last_assistant_message: find(sessionID).said })
    },
    dispose: async () => {
      for (const id of sessions.keys()) end(id, "exit")
      await kept
    },
  }
}
