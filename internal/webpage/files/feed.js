// A stream of messages from the server, which connects again by itself.

// pause is how long a feed waits after a refusal, in ms.
const pause = 1000;

// Feed is open while its page can be seen, or always. A browser opens six connections to one
// host at most, for all its pages together: a page that nobody sees leaves them to the others.
export class Feed {
  // take is called with each message, and lost when the connection has broken.
  constructor(path, take, lost, always = false) {
    Object.assign(this, { path, take, lost, always });
    this.looked = () => this.look();
    document.addEventListener("visibilitychange", this.looked);
    this.look();
  }

  // look opens or closes the stream.
  look() {
    if (!this.always && document.hidden) this.stop();
    else if (!this.source) this.open();
  }

  open() {
    const source = this.source = new EventSource(this.path);
    source.onmessage = (e) => this.take(JSON.parse(e.data));
    source.onerror = () => {
      this.lost();
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      setTimeout(() => {
        if (this.source !== source) return;
        this.stop();
        this.look();
      }, pause);
    };
  }

  stop() {
    this.source?.close();
    this.source = undefined;
  }

  // close ends the feed.
  close() {
    document.removeEventListener("visibilitychange", this.looked);
    this.stop();
  }
}
